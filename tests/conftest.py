"""Settings that the tests share. Their shared helpers are in capi.py."""

import hypothesis

# The same examples every time: what fails once fails again.
hypothesis.settings.register_profile("dlpack", deadline=None, derandomize=True)
hypothesis.settings.load_profile("dlpack")
