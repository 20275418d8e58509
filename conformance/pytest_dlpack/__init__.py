"""Tests whether an array library keeps the rules of DLPack. The README has what to write.

Importing it does nothing: pytest loads `plugin`, and what a rule needs is imported when the rule runs.
"""
