"""How hypothesis draws: the same examples on every run of `make test`, fresh ones in `make test-full`.

A change must not fail for an example that an earlier run happened not to draw; looking for new ones is the long run's
job.
"""

import os

from hypothesis import settings

settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("random", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))
