"""Hypothesis without its per-example deadline: a shared machine pauses, and that is no failure."""

from __future__ import annotations

import hypothesis

hypothesis.settings.register_profile("no-deadline", deadline=None)
hypothesis.settings.load_profile("no-deadline")
