int probe;
