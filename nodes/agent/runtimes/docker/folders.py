"""Where an Engine keeps images and containers: by its graph drivers all below its data folder; with containerd's store
(of a fresh Engine 29) images and what containers write lie in containerd's own folder, and volumes below its own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nodes.agent.disk.guard import free_percent
from nodes.agent.runtimes.docker.client import in_containerd

CONTAINERD = Path("/var/lib/containerd")
"""Of the server's containerd, whatever the Engine's data folder is."""


def disk_folder(info: Mapping[str, Any]) -> str:
    """The one with the least room of the folders that fill, by what the Engine tells (``docker info``)."""
    folders = dict.fromkeys((_data_folder(info), image_folder(info)))
    there = [folder for folder in folders if os.path.isdir(folder)]
    return min(there, key=free_percent, default=_data_folder(info))


def image_folder(info: Mapping[str, Any]) -> str:
    """The one in which removing an image makes room. An Engine without a containerd beside it begins one of its own."""
    data = _data_folder(info)
    if in_containerd(info):
        return next((str(one) for one in (Path(data, "containerd/daemon"), CONTAINERD) if one.is_dir()), data)
    return data


def _data_folder(info: Mapping[str, Any]) -> str:
    return str(info.get("DockerRootDir") or "/")
