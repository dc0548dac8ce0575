"""The old home of `hub.load_state_dict_from_url`."""

from facula.hub import load_state_dict_from_url as load_url  # noqa: F401
