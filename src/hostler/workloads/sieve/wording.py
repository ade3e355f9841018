"""Numbers as people read them."""


def count_of(number: int) -> str:
    """A number of items, as a power of two where it is one or nearly."""
    bits = (number + 2).bit_length() - 1
    return f"2^{bits}" if bits > 16 and abs(number - (1 << bits)) <= 2 else str(number)


def duration(seconds: float) -> str:
    """So many seconds for people."""
    for unit, length in (("years", 31_557_600), ("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.2g} s"
