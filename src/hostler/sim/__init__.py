"""The core under virtual time, with a virtual fleet and planned faults. Start reading at `world.World`."""

from hostler.sim.faults import Faults
from hostler.sim.programs import Script, Search, script_job, sweep_job
from hostler.sim.report import Report
from hostler.sim.world import World

__all__ = ["Faults", "Report", "Script", "Search", "World", "script_job", "sweep_job"]
