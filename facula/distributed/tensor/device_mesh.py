"""Provide grids of processes under the name that `distributed.tensor` had for them."""

from ..device_mesh import DeviceMesh, init_device_mesh

__all__ = ["DeviceMesh", "init_device_mesh"]
