"""The old home of `hub.load_state_dict_from_url`."""

from facula.hub import load_state_dict_from_url as load_url  # noqa: F401


def __getattr__(name):
    if name == "tqdm":
        from facula import hub

        return hub.tqdm
    raise AttributeError(f"module 'torch.utils.model_zoo' has no attribute {name!r}")
