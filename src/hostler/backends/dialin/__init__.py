"""Nodes that nobody can connect to: they call the controller, over TLS, with a token each."""

from hostler.backends.dialin.certificate import context, fingerprint, self_signed
from hostler.backends.dialin.node import DialinNode
from hostler.backends.dialin.switchboard import Call, NotYet, Switchboard

__all__ = ["Call", "DialinNode", "NotYet", "Switchboard", "context", "fingerprint", "self_signed"]
