"""Streams and events: names of `facula.cuda`."""


def __getattr__(name):
    from facula.compat import placeholders

    return placeholders.member("torch.cuda.streams", name)
