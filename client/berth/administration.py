"""Administration by the API: people, groups, storages, images, templates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal
from urllib.parse import quote

from berth.calls import LONG, Call, Listing, get, not_none, nothing, reading, send, text
from berth.endpoint import ExecutorT_co, Resource, endpoint, rows
from berth.model.accounts import Group, GroupDetail, Imported, User
from berth.model.cluster import ImageRule, Storage, StorageServer, Template, TemplateDetail

Role = Literal["user", "auditor", "admin"]
StorageServers = list[StorageServer]  # in the class below `list` is a method


def _named(path: str, name: str) -> str:
    return f"{path}/{quote(name, safe='')}"


class Users(Resource[ExecutorT_co]):
    """Accounts. Changing them is for administrators."""

    @rows
    def list(
        self,
        *,
        text: str | None = None,
        active: bool | None = None,
        role: Sequence[Role] = (),
        vc: str | None = None,
        group: str | None = None,
    ) -> Listing[User]:
        """The accounts you may see, by name. ``text`` is a part of name or e-mail address."""
        wanted = None if active is None else str(active).lower()
        params = {"text": text, "active": wanted, "role": [*role] or None, "vc": vc, "group": group}
        return Listing("users", User, not_none({**params, **LONG}))

    @endpoint
    def get(self, username: str) -> Call[User]:
        """One account."""
        return get(_named("users", username), User)

    @endpoint
    def create(
        self,
        username: str,
        *,
        password: str | None = None,
        email: str = "",
        role: Role = "user",
        uid: int | None = None,
        gid: int | None = None,
        extra_gids: Sequence[int] = (),
        groups: Sequence[str] = (),
        virtual_clusters: Sequence[str] = (),
    ) -> Call[User]:
        """A new account. Without a password nobody signs in by one until one is given. Raises Conflict for a name or a
        uid that another has."""
        body = {
            "username": username, "password": password, "email": email, "role": role, "uid": uid, "gid": gid,
            "extra_gids": [*extra_gids], "groups": [*groups], "virtual_clusters": [*virtual_clusters],
        }  # fmt: skip
        return send("POST", "users", User, body)

    @endpoint
    def change(self, /, username: str, **changes: Any) -> Call[User]:
        """Changes some of ``email``, ``role``, ``active``, ``uid``, ``gid``, ``extra_gids`` and ``groups``. With
        ``active=False`` the account is signed out everywhere. Raises Conflict for the last administrator."""
        return send("PATCH", _named("users", username), User, changes, repeatable=True)

    @endpoint
    def set_password(self, username: str, password: str) -> Call[None]:
        """Gives the account another password."""
        return _quietly("PUT", f"{_named('users', username)}/password", {"password": password})

    @endpoint
    def remove(self, username: str) -> Call[None]:
        """Removes an account without jobs. Raises Conflict for others, which can be disabled."""
        return Call("DELETE", _named("users", username), nothing)

    @endpoint
    def template(self) -> Call[str]:
        """A CSV file with the columns that ``import_csv`` takes, and an example."""
        return Call("GET", "users/import", text, repeatable=True)

    @endpoint
    def import_csv(
        self, table: str | bytes, *, dry_run: bool = False, all_or_nothing: bool = True
    ) -> Call[Imported]:  # fmt: skip
        """Makes an account of each row of a CSV file. Raises NotValid with every fault and its line where
        ``all_or_nothing`` holds and some row cannot be."""
        content = table.encode() if isinstance(table, str) else table
        params = {"dry_run": str(dry_run).lower(), "all_or_nothing": str(all_or_nothing).lower()}
        headers = {"Content-Type": "text/csv"}
        return Call("POST", "users/import", reading(Imported), params=params, content=content, headers=headers)


class Groups(Resource[ExecutorT_co]):
    """Groups of users, and the virtual clusters that they give. Changing them is for administrators."""

    @rows
    def list(self, *, name: str | None = None, vc: str | None = None, user: str | None = None) -> Listing[Group]:
        """The groups you may see, by name. ``name`` is a part of it."""
        return Listing("groups", Group, not_none({"name": name, "vc": vc, "user": user, **LONG}))

    @endpoint
    def get(self, name: str) -> Call[GroupDetail]:
        """One group with its members."""
        return get(_named("groups", name), GroupDetail)

    @endpoint
    def create(self, name: str, *, description: str = "", roles: Mapping[str, str] | None = None) -> Call[GroupDetail]:
        """A new group; ``roles`` are those that its members have, by virtual cluster."""
        body = {"name": name, "description": description, "virtual_clusters": _roles(roles or {})}
        return send("POST", "groups", GroupDetail, body)

    @endpoint
    def change(
        self, name: str, *, description: str | None = None, roles: Mapping[str, str] | None = None
    ) -> Call[GroupDetail]:
        """Another description, or other roles; None: as it is."""
        granted = None if roles is None else _roles(roles)
        body = not_none({"description": description, "virtual_clusters": granted})
        return send("PATCH", _named("groups", name), GroupDetail, body, repeatable=True)

    @endpoint
    def add(self, name: str, username: str) -> Call[None]:
        """Puts a user into the group."""
        return _quietly("PUT", _named(f"{_named('groups', name)}/members", username))

    @endpoint
    def drop(self, name: str, username: str) -> Call[None]:
        """Takes a user out of the group."""
        return _quietly("DELETE", _named(f"{_named('groups', name)}/members", username))

    @endpoint
    def remove(self, name: str) -> Call[None]:
        """Ends the group."""
        return Call("DELETE", _named("groups", name), nothing)


class Storages(Resource[ExecutorT_co]):
    """Folders that nodes mount. Changing them is for administrators."""

    @rows
    def list(self, *, name: str | None = None, vc: str | None = None) -> Listing[Storage]:
        """The storages that your jobs may mount, by name, with the nodes that offer them. ``name`` is a part of it."""
        return Listing("storages", Storage, not_none({"name": name, "vc": vc, **LONG}))

    @endpoint
    def get(self, name: str) -> Call[Storage]:
        """One storage."""
        return get(_named("storages", name), Storage)

    @endpoint
    def create(self, /, name: str, root: str, **about: Any) -> Call[Storage]:
        """A new storage; ``about``: some of ``kind``, ``export``, ``read_only``, ``per_user``, ``must_be_mount``,
        ``jobs``, ``everyone``, ``virtual_clusters``, ``servers``. Raises Conflict where the name is taken."""
        return send("POST", "storages", Storage, {"name": name, "root": root, **about})

    @endpoint
    def change(self, /, name: str, **changes: Any) -> Call[Storage]:
        """Changes some of these, or ``root``. Raises Conflict for its place while jobs use it."""
        return send("PATCH", _named("storages", name), Storage, changes, repeatable=True)

    @endpoint
    def remove(self, name: str) -> Call[None]:
        """Forgets a storage; what lies in it stays. Raises Conflict while jobs use it."""
        return Call("DELETE", _named("storages", name), nothing)

    @endpoint
    def servers(self, name: str) -> Call[StorageServers]:
        """Every accepted server, and whether it is tied to the storage. For administrators."""
        return get(f"{_named('storages', name)}/servers", StorageServers)

    @endpoint
    def tie(self, name: str, node: str, *, tied: bool = True) -> Call[StorageServer]:
        """Ties a server to the storage, which accepts the storage's folder there, or unties it (``tied=False``): then
        it answers only for jobs that ran on it, and gets no new task that needs the storage. Raises Conflict for a
        pending server. For administrators."""
        path = _named(f"{_named('storages', name)}/servers", node)
        return send("PUT", path, StorageServer, {"tied": tied}, repeatable=True)


class Images(Resource[ExecutorT_co]):
    """Which images jobs may run. Changing it is for administrators."""

    @rows
    def list(self, *, vc: str | None = None) -> Listing[ImageRule]:
        """The patterns of the whole cluster and of your virtual clusters; without any, every image may run."""
        return Listing("images", ImageRule, not_none({"vc": vc, **LONG}))

    @endpoint
    def allow(self, pattern: str, *, vc: str | None = None, profile: str = "root", note: str = "") -> Call[ImageRule]:
        """Lets images of a pattern run, in one virtual cluster or in all that have none of their own. ``profile``:
        ``user``: as the job's user also where the virtual cluster allows root."""
        return send("POST", "images", ImageRule, {"pattern": pattern, "vc": vc, "profile": profile, "note": note})

    @endpoint
    def disallow(self, rule_id: int) -> Call[None]:
        """Takes a pattern off its list."""
        return Call("DELETE", f"images/{rule_id}", nothing)


class Templates(Resource[ExecutorT_co]):
    """Job files that are kept: your own, those of your virtual clusters, everybody's."""

    @rows
    def list(
        self, *, name: str | None = None, visibility: str | None = None, vc: str | None = None
    ) -> Listing[Template]:
        """Without their files, newest first. ``visibility``: private, vc, public; ``name`` is a part of it."""
        return Listing("templates", Template, not_none({"name": name, "visibility": visibility, "vc": vc, **LONG}))

    @endpoint
    def get(self, template_id: int) -> Call[TemplateDetail]:
        """One template with its file; to use it, submit that."""
        return get(f"templates/{template_id}", TemplateDetail)

    @endpoint
    def create(
        self, name: str, document: str, *, description: str = "", vc: str | None = None, public: bool = False
    ) -> Call[TemplateDetail]:
        """Keeps a job file: as your own, as a virtual cluster's, or as everybody's. Raises NotValid with every problem
        of the file, Conflict where the name is taken."""
        body = {"name": name, "file": document, "description": description, "vc": vc, "public": public}
        return send("POST", "templates", TemplateDetail, body)

    @endpoint
    def change(self, /, template_id: int, **changes: str) -> Call[TemplateDetail]:
        """Another ``name``, ``description`` or ``file``."""
        return send("PATCH", f"templates/{template_id}", TemplateDetail, changes, repeatable=True)

    @endpoint
    def remove(self, template_id: int) -> Call[None]:
        """Forgets it; jobs that were made from it stay."""
        return Call("DELETE", f"templates/{template_id}", nothing)


def _roles(roles: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": vc, "role": role} for vc, role in roles.items()]


def _quietly(method: str, path: str, body: Any = None) -> Call[None]:
    """A call that may be sent twice and answers nothing."""
    sent = send(method, path, type(None), body)
    return Call(method, path, nothing, content=sent.content, headers=sent.headers, repeatable=True)
