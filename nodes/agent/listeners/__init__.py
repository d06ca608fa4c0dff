"""What answers on the server without authentication, where tasks with the host network reach it."""

from nodes.agent.listeners.look import Looked, look
from nodes.agent.listeners.watch import ListenerWatch

__all__ = ["ListenerWatch", "Looked", "look"]
