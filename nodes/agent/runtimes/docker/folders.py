"""Folders of an Engine's images and containers: with graph drivers all below its data folder; with containerd's store
(the default of a fresh Engine 29) images and layers in containerd's own folder, and volumes below the Engine's."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nodes.agent.disk.guard import free_percent
from nodes.agent.runtimes.docker.client import in_containerd

CONTAINERD = Path("/var/lib/containerd")
"""The server's containerd, whatever the Engine's data folder is."""


def disk_folder(info: Mapping[str, Any]) -> str:
    """The folder with the least room of those that containers fill, from ``docker info``."""
    folders = dict.fromkeys((_data_folder(info), image_folder(info)))
    there = [folder for folder in folders if os.path.isdir(folder)]
    return min(there, key=free_percent, default=_data_folder(info))


def image_folder(info: Mapping[str, Any]) -> str:
    """The folder in which removing an image makes room. An Engine without a containerd beside it starts its own."""
    data = _data_folder(info)
    if in_containerd(info):
        return next((str(one) for one in (Path(data, "containerd/daemon"), CONTAINERD) if one.is_dir()), data)
    return data


def _data_folder(info: Mapping[str, Any]) -> str:
    return str(info.get("DockerRootDir") or "/")
