"""Nodes behind SSH: reached without root, without passwords, and without installing anything but one file."""

from hostler.backends.ssh.doctor import Finding, examine, unreached
from hostler.backends.ssh.network import Network
from hostler.backends.ssh.node import SshNode
from hostler.backends.ssh.target import Habits, Target

__all__ = ["Finding", "Habits", "Network", "SshNode", "Target", "examine", "unreached"]
