"""The sieve's own errors.

SieveError
├── SpecError      the parameters or a data file are refused; the text names the field and what to do
└── TooManyHits    an interval holds more survivors than an answer may carry: the draws say too little
"""


class SieveError(Exception):
    """Something the user can put right; the text says what happened, to what, and what to do."""


class SpecError(SieveError):
    """Parameters or a data file that are refused."""


class TooManyHits(SieveError):
    """More survivors in one interval than can be reported."""
