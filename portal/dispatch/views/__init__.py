"""Pages of what the scheduler is told: quotas."""

from portal.dispatch.views.quota import quota, quota_change_end

__all__ = ["quota", "quota_change_end"]
