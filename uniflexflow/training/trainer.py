"""The part of a Model that trains it."""

from __future__ import annotations


class Trainer:
    """compile, fit, evaluate and predict."""
