"""Logs on the node: container -> spool -> Redis stream. The spool's byte position is the offset everywhere."""

from nodes.agent.logs.base import MAX_PAYLOAD, FrameSource, LogStatus, OpenLine, Position
from nodes.agent.logs.masks import Masks
from nodes.agent.logs.pipeline import LogPipeline

__all__ = ["MAX_PAYLOAD", "FrameSource", "LogPipeline", "LogStatus", "Masks", "OpenLine", "Position"]
