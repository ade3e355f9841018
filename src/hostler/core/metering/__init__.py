"""How devices were used, hour by hour: folded from events, handed out when an hour is over."""
