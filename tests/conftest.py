"""What holds for all tests."""

from hypothesis import settings

# No test depends on speed: a crowded machine must not fail one.
settings.register_profile("house", parent=settings.default, deadline=None)
settings.load_profile("house")
