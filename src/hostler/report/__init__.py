"""Pages of pictures: what the loops have learnt, what a virtual fleet did. Needs the extra `report` (matplotlib, Jinja2)."""

from hostler.report.fleet_page import make_fleet_page
from hostler.report.page import make_page

__all__ = ["make_fleet_page", "make_page"]
