"""A page that shows what the self-improvement loops have learnt. Needs the extra `report`: matplotlib and Jinja2."""

from hostler.report.page import make_page

__all__ = ["make_page"]
