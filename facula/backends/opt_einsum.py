"""Choice of the order of products in einsum."""

enabled = True
strategy = "auto"


def is_available():
    """Whether the opt_einsum package is installed."""
    return get_opt_einsum() is not None


def get_opt_einsum():
    """The opt_einsum package, None where it is not installed."""
    try:
        import opt_einsum
    except ImportError:
        return None
    return opt_einsum
