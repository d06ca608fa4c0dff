"""Translates job file problems and hints, which are produced in English. A sentence is reworded by the first template
here that matches it; without a match it stays as written."""

from __future__ import annotations

from django.utils.translation import gettext_noop

from portal.common.sentences import reworded, worded
from portal.hardware.health_words import SENTENCES as OF_SERVERS
from portal.storages.selectors.storages import NO_FOLDER

OF_STORAGES = (*OF_SERVERS, NO_FOLDER)
"""Why servers do not offer a storage."""

SENTENCES = (
    # What the scheduler refuses (scheduling/diagnosis/feasible_at_submit.py).
    gettext_noop("no node has %(sku)s"),
    gettext_noop("role %(role)s asks for %(asked)s GPUs on one node; a node has %(most)s"),
    gettext_noop("role %(role)s asks for %(asked)s milli-cores of CPU; a node has %(most)s"),
    gettext_noop("role %(role)s asks for %(asked)s MB of memory; a node has %(most)s"),
    gettext_noop("no single node has all that a task of role %(role)s asks for"),
    gettext_noop("role %(role)s asks for no resources"),
    gettext_noop("role %(role)s asks for no GPUs; no server with %(sku)s takes tasks without GPUs"),
    gettext_noop("role %(role)s asks for no GPUs; no server of this cluster takes tasks without GPUs"),
    gettext_noop("team %(vc)s has no reserved servers %(cell)s"),
    gettext_noop("an opportunistic job cannot use reserved servers"),
    gettext_noop("role %(role)s asks for %(sku)s; the reserved servers %(cell)s have %(kind)s"),
    gettext_noop("role %(role)s asks for %(asked)s GPUs on one node; the reserved servers have %(most)s"),
    gettext_noop("the job needs %(asked)s %(kind)s at once; team %(vc)s owns %(most)s"),
    gettext_noop("the job needs %(asked)s %(kind)s at once; the cluster has %(most)s"),
    gettext_noop("tasks of %(parts)s do not fit the cells of team %(vc)s (%(cells)s)"),
    gettext_noop("tasks of %(parts)s do not fit the nodes, even when all are idle"),
    gettext_noop("tasks of %(parts)s do not fit the nodes beside the CPU and memory that these keep for idle GPUs"),
    gettext_noop("team %(vc)s owns no GPUs"),
    gettext_noop("the job needs %(asked)s %(kind)s at once; one user of team %(vc)s may hold %(most)s"),
    gettext_noop(
        "the job needs %(asked)s %(kind)s at once; one user of team %(vc)s may hold %(most)s, %(part)s of its quota"
    ),
    gettext_noop(
        "the job needs %(asked)s GPUs at once; jobs of priority %(lowest)s and higher may hold %(most)s in team %(vc)s "
        "together"
    ),
    gettext_noop("must be a path relative to $BERTH_JOB_DIR, or one below the mountPath of a storage, not %(value)s"),
    gettext_noop('must name a job such as "prepare", "prepare#3" or "alice/prepare#3", not %(value)s'),
    gettext_noop('must be "sha256:" and the 64 hexadecimal digits of an uploaded code folder, not %(value)s'),
    gettext_noop(
        'must be whole seconds from 1 to 315,360,000 (10 years), or a text such as "90s", "15m", "2h" or "7d", not '
        "%(value)s"
    ),
    gettext_noop(
        'must be a mapping; a masked "******" cannot be submitted: give the values again, or remove the section to use '
        "your stored secrets, not %(value)s"
    ),
    gettext_noop('must be 1 to 255 letters, digits, "_" or "-", not %(value)s'),
    gettext_noop('this name must be letters, digits and "_", and must not begin with a digit, not %(value)s'),
    gettext_noop('must be an absolute path such as "/mnt/data", not %(value)s'),
    gettext_noop('must be an image such as "pytorch/pytorch:2.5.0", without blanks, not %(value)s'),
    gettext_noop("must be 1 to 64 characters without a comma, not %(value)s"),
    gettext_noop("is required"),
    gettext_noop("must be a regular expression of RE2, which says: %(why)s"),
    gettext_noop(r"must be a pattern with the step's number in its first group, such as step (\d+)"),
    gettext_noop("must be a pattern that an empty line does not match"),
    gettext_noop("must not be empty"),
    gettext_noop("must be at least instances, %(least)s, not %(value)s"),
    gettext_noop("must be at most instances, %(most)s, not %(value)s"),
    gettext_noop("must be more than min, %(least)s, not %(value)s"),
    gettext_noop("its tasks have no GPUs, so that it cannot grow into idle ones"),
    gettext_noop("needs a job whose tasks start together; remove gangAllocation: false, or elastic"),
    gettext_noop("preemptible: false does not go with elastic, whose extra tasks can always be preempted; remove one"),
    gettext_noop("must be at least %(least)s, not %(value)s"),
    gettext_noop("must be at most %(most)s characters long, not %(value)s"),
    gettext_noop("must be at most the timeLimit, %(most)s s, not %(value)s s"),
    gettext_noop("must be at most %(most)s seconds (10 years), not %(value)s"),
    gettext_noop("must be at most %(most)s s here, not %(value)s s"),
    gettext_noop("must be at most %(most)s, not %(value)s"),
    gettext_noop("must have at least %(least)s, not %(value)s"),
    gettext_noop("must have at most %(most)s entries, not %(value)s"),
    gettext_noop("must have at most %(most)s, not %(value)s"),
    gettext_noop("must be one of %(known)s, not %(value)s"),
    gettext_noop("must be %(kind)s or %(other)s, not %(value)s"),
    gettext_noop("must be %(kind)s, not %(value)s"),
    gettext_noop("unknown key; did you mean %(guess)s?"),
    gettext_noop("unknown key; known here: %(known)s"),
    gettext_noop("not valid YAML: %(why)s"),
    gettext_noop("the file has %(size)s; at most %(most)s bytes are accepted"),
    gettext_noop("contains the control character %(name)s; remove it"),
    gettext_noop("declares tags of its own with %%TAG; remove the declaration"),
    gettext_noop("is not UTF-8 text (byte %(byte)s); save it as UTF-8"),
    gettext_noop("must be a mapping of keys such as `name:` and `taskRoles:`"),
    gettext_noop("holds a second document; give one job per file"),
    gettext_noop("is empty"),
    gettext_noop("is nested deeper than %(most)s levels"),
    gettext_noop("the tag %(tag)s is not accepted; only !!str, !!int, !!float, !!bool, !!null are"),
    gettext_noop("`<<` must name a mapping or a list of mappings"),
    gettext_noop("has a key that is not a plain word"),
    gettext_noop("has more than %(most)s anchors; write the values out"),
    gettext_noop("*%(name)s names nothing that is complete before it"),
    gettext_noop("holds more than %(most)s values, aliases counted as what they stand for"),
    gettext_noop("holds more than %(most)s characters, aliases counted as what they stand for"),
    gettext_noop("the key %(key)s stands twice in one mapping; keep one of them"),
    gettext_noop("a second %(what)s is named %(name)s; give it another name"),
    gettext_noop(
        "%(other)s and %(name)s are the same role in OpenPAI's variables (PAI_HOST_IP_%(role)s_0), which name "
        "roles in lower case without underscores; rename one"
    ),
    gettext_noop("no %(what)s is named %(name)s; there is none"),
    gettext_noop("no %(what)s is named %(name)s; there is: %(known)s"),
    gettext_noop("no %(what)s is named %(name)s; there are: %(known)s"),
    gettext_noop("no SKU is named %(sku)s; known: %(known)s"),
    gettext_noop("Docker takes image names in lower case only; did you mean %(image)s?"),
    gettext_noop('%(image)s names no image, as "pytorch/pytorch:2.5.0" or "registry.lab:5000/team/image:1" do'),
    gettext_noop("the image's name must be at most %(most)s characters, not %(length)s"),
    gettext_noop("is masked; give the password again, or name one of your stored secrets"),
    gettext_noop("skuType %(sku)s and pinnedCellId %(cell)s exclude each other; remove one of them"),
    gettext_noop("affinity group %(group)s asks for another SKU or other reserved servers than in role %(role)s"),
    gettext_noop("every command is blank; give at least one to run"),
    gettext_noop("the roles have %(total)s tasks together; at most %(most)s are accepted"),
    gettext_noop("are longer than %(most)s characters with their parameters filled in"),
    gettext_noop("the commands of all roles are longer than %(most)s characters together"),
    gettext_noop("storage %(name)s is mounted twice; once is enough"),
    gettext_noop("%(place)s is already the place of another storage"),
    gettext_noop("%(place)s cannot be a mount point; choose one such as %(other)s"),
    gettext_noop("preemptible: false holds inside the quota only; remove it, or borrow: auto"),
    gettext_noop("an opportunistic job (oppo) can always be preempted; remove it, or take another class"),
    gettext_noop("every node here stands under `not` as well"),
    gettext_noop("must stay inside its folder (no `..`)"),
    gettext_noop("must be a path relative to $BERTH_JOB_DIR, or one below the mountPath of a storage of this job"),
    gettext_noop("you may not submit to virtual cluster %(vc)s; yours: %(yours)s"),
    gettext_noop("virtual cluster %(vc)s has no %(sku)s; it has: %(known)s"),
    gettext_noop("asks for %(tasks)s tasks at once; all nodes together, empty, hold %(room)s of this size"),
    gettext_noop("asks for no GPUs; no server with %(sku)s takes tasks without GPUs"),
    gettext_noop("asks for no GPUs; no server of this cluster takes tasks without GPUs"),
    gettext_noop("no node has %(gpus)s, %(cpu)s and %(memory)s MB together"),
    gettext_noop("asks for %(asked)s ports per task, its own among them; no node has more than %(most)s"),
    gettext_noop("asks for %(asked)s per task; the largest node it may use has %(most)s"),
    gettext_noop("asks for %(asked)s per task; the largest node of SKU %(sku)s it may use has %(most)s"),
    gettext_noop("Job requests %(asked)s SKUs, exceeds maximum %(most)s SKUs in VC %(vc)s."),
    gettext_noop("%(class)s is above %(highest)s, the highest priority class that you may use in %(vc)s"),
    gettext_noop("asks for %(asked)s GPUs at once; one user may hold %(most)s in %(vc)s"),
    gettext_noop("asks for %(asked)s %(kind)s at once; one user may hold %(most)s in %(vc)s, %(part)s of its quota"),
    gettext_noop(
        "asks for %(asked)s GPUs at once; jobs of class %(class)s and above may hold %(most)s in %(vc)s together"
    ),
    gettext_noop("%(vc)s has no reserved servers %(cell)s; it has: %(known)s"),
    gettext_noop("you have no right to jobs in %(vc)s that are not preempted; ask an administrator"),
    gettext_noop(
        "you may hold %(right)s GPUs in %(vc)s without preemption until %(day)s; your jobs there ask for %(used)s, "
        "this one for %(asked)s"
    ),
    gettext_noop("the job refers to <%% $secrets.%(name)s %%>; give it under secrets, or store it"),
    gettext_noop("%(vc)s has no storage %(name)s; it has: %(known)s"),
    gettext_noop("there is no virtual cluster %(vc)s any more"),
    gettext_noop(
        "%(tasks)s tasks need the host network, which %(vc)s may not use; ask an administrator, or put the work into "
        "one task"
    ),
    gettext_noop("only a job of one task with one GPU can be parked"),
    gettext_noop("%(vc)s has no jobs parked; remove it, or ask a lead of %(of)s to allow it"),
    gettext_noop("containers run as their user in %(vc)s, never as root; remove it, or ask an administrator"),
    gettext_noop("%(image)s runs as its user in %(vc)s, never as root; remove it, or ask an administrator"),
    gettext_noop("there is no node %(name)s"),
    gettext_noop("there is no job %(job)s that you may see"),
    gettext_noop("the code %(code)s is gone: upload it again"),
    gettext_noop(
        "there is no code %(code)s that you may use; upload its folder again: berth submit --code DIR, or POST "
        "/api/v1/code"
    ),
    gettext_noop("the job's code is unpacked to %(place)s: mount this storage elsewhere"),
    gettext_noop("%(text)s is no public SSH key; it is the content of a file that ends with .pub"),
    gettext_noop("asks for rights that jobs do not have here; remove it"),
    gettext_noop("has a quote that is not closed, or ends with a backslash"),
    gettext_noop("%(text)s is no number that can be stored"),
    gettext_noop("%(text)s is no %(kind)s"),
    gettext_noop("and %(number)s more problems"),
)
"""The first match wins. The schemas' own (``x-says``) come first."""
PARTS = (
    gettext_noop('the text "%(text)s"'),
    gettext_noop("Critical (crit)"),
    gettext_noop("Production (prod)"),
    gettext_noop("Test (test)"),
    gettext_noop("Opportunistic (oppo)"),
    gettext_noop("%(number)s characters"),
    gettext_noop("%(number)s bytes"),
    gettext_noop("%(count)s CPU core"),
    gettext_noop("%(count)s CPU cores"),
    gettext_noop("%(count)s MB of memory"),
    gettext_noop("%(kind)s prerequisite"),
    gettext_noop("empty"),
    gettext_noop("none"),
    gettext_noop("no GPUs"),
    gettext_noop("a mapping"),
    gettext_noop("a list"),
    gettext_noop("a text"),
    gettext_noop("a whole number"),
    gettext_noop("a number"),
    gettext_noop("true or false"),
    gettext_noop("task role"),
    gettext_noop("deployment"),
    gettext_noop("prerequisite"),
    *OF_STORAGES,
)
"""Phrases that fill placeholders and are translated too."""


def problem_words(message: str) -> str:
    """The message in the reader's language."""
    return worded(message, lambda text: reworded(text, (*SENTENCES, *PARTS), PARTS))
