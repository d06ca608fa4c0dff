"""What people type on the pages of the cluster."""

from portal.clusters.forms.teams import FirmRightForm, IntentForm, LoanForm, MemberForm, RulesForm

__all__ = ["FirmRightForm", "IntentForm", "LoanForm", "MemberForm", "RulesForm"]
