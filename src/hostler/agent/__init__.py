"""The resident supervisor of a node: standard library only, Python 3.8 or newer, imports nothing else of hostler.

The wire format is ``docs/reference/agent-protocol.md``; the folder's README says where to start reading.
"""
