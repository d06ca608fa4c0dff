"""REST: what would become of a job, before it is submitted."""

from portal.dispatch.api.estimates import EstimatesView

__all__ = ["EstimatesView"]
