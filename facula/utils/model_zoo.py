"""The old home of `hub.load_state_dict_from_url`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula.hub import load_state_dict_from_url as load_url  # noqa: F401

if TYPE_CHECKING:
    from typing import Any


def __getattr__(name: str) -> Any:
    if name == "tqdm":
        from facula import hub

        return hub.tqdm
    from facula._near_names import no_attribute

    raise no_attribute(__name__, name)
