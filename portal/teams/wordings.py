"""Sentences that are stored of virtual clusters."""

from __future__ import annotations

from nodes.protocol.wording import Wording
from portal.hardware.states import VcRole

CREATED = Wording("vc_created", "Virtual cluster %(vc)s.")
REMOVED = Wording("vc_removed", "%(vc)s was removed.")
MEMBER = Wording("vc_member", "%(name)s is %(role)s of %(vc)s.")
MEMBER_GONE = Wording("vc_member_gone", "%(name)s is not in %(vc)s any more.")
GROUP = Wording("vc_group", "Group %(group)s")
ROLES = {VcRole.LEAD: Wording("vc_role_lead", "lead"), VcRole.MEMBER: Wording("vc_role_member", "member")}

QUOTA = Wording("quota", "Quota of %(vc)s: %(number)s %(type)s.")
PLANNED = Wording("quota_planned", "From %(start)s: %(number)s %(type)s for %(vc)s.")
PLANNED_UNTIL = Wording("quota_planned_until", "From %(start)s until %(end)s: %(number)s %(type)s for %(vc)s.")
BEGUN = Wording("quota_begun", "%(vc)s has %(number)s %(type)s until %(end)s.")
RETURNED = Wording("quota_returned", "%(vc)s has %(number)s %(type)s again.")
WITHDRAWN = Wording("quota_withdrawn", "The change to %(number)s %(type)s of %(vc)s is withdrawn.")
FOR_REASON = Wording("quota_reason", "%(why)s Reason: %(reason)s")

RULES = Wording("rules", "Rules of %(vc)s: %(rules)s.")
RULE = Wording("rule", "%(rule)s %(value)s")
DESCRIPTION = Wording("rule_description", "description")
SAID = {
    None: Wording("rule_no_limit", "no limit"),
    True: Wording("rule_yes", "yes"),
    False: Wording("rule_no", "no"),
}
LIMITS = Wording("limits", "Limits of lending of %(vc)s: %(limits)s.", between="; ")
NO_LIMITS = Wording("no_limits", "Limits of lending of %(vc)s: none.")
LIMIT = Wording("limit", "%(sku)s borrow %(borrow)s, lend %(lend)s")
AT_MOST = Wording("limit_most", "at most %(number)s")
WITHOUT = Wording("limit_none", "without limit")
FIRM_RIGHT = Wording("firm_right", "%(user)s may run %(gpus)s GPUs of %(vc)s without preemption until %(day)s.")
FIRM_RIGHT_OVER = Wording("firm_right_over", "%(user)s's jobs in %(vc)s can be preempted again.")
