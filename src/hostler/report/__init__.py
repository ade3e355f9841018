"""Pages of pictures: what the loops have learnt, what a virtual fleet did. They need the extra `report`."""

from hostler.report.fleet_page import make_fleet_page
from hostler.report.page import make_page

__all__ = ["make_fleet_page", "make_page"]
