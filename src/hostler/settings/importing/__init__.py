"""Lists of machines that people have already, as nodes: `~/.ssh/config`, Ansible inventories, SkyPilot's node pools.

`kinds` tells what a text is and has it read (`ssh_config`, `ansible_ini`, `ansible_yaml`, `skypilot`): text in, a
`Listing` out. `making` makes nodes of it, `writing` a fleet file; `sources` alone opens files.
"""

from hostler.settings.importing.kinds import Kind
from hostler.settings.importing.making import Imported, imported, is_node_name
from hostler.settings.importing.records import LeftOut, Listing, Machine
from hostler.settings.importing.sources import extra_configs, read, read_text
from hostler.settings.importing.writing import fleet_text

__all__ = [
    "Imported",
    "Kind",
    "LeftOut",
    "Listing",
    "Machine",
    "extra_configs",
    "fleet_text",
    "imported",
    "is_node_name",
    "read",
    "read_text",
]
