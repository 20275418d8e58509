"""An object that speaks DLPack alone."""


class Producer:
    """Answers as this function does, or as this array would; remembers what it is asked."""

    def __init__(self, answer, device=(1, 0)):
        self.answer, self.device = answer, device
        self.asked = []  # the arguments of each __dlpack__
        self.asked_for_device = 0

    def __dlpack__(self, **arguments):
        self.asked.append(arguments)
        if callable(self.answer):
            return self.answer(**arguments)
        return self.answer.__dlpack__(**{key: value for key, value in arguments.items() if key != "stream"})

    def __dlpack_device__(self):
        self.asked_for_device += 1
        return self.device


def refusing(error, device=(1, 0), **others):
    """A producer that raises this error, and has other attributes."""

    def refuse(**_):
        raise error

    producer = Producer(refuse, device)
    producer.__dict__.update(others)
    return producer
