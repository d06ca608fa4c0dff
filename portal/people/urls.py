"""URLs of accounts, groups and provider sign-in."""

from django.urls import path

from portal.people.views.groups import group_end, group_member_add, group_member_remove, group_new, group_page, groups
from portal.people.views.names import names
from portal.people.views.people import user_end, user_new, user_page, user_password, users
from portal.people.views.people_import import users_import, users_import_progress
from portal.people.views.sign_in import oidc_callback, oidc_start, oidc_tie

urlpatterns = [
    path("login/oidc", oidc_start, name="oidc-start"),
    path("login/oidc/callback", oidc_callback, name="oidc-callback"),
    path("profile/oidc", oidc_tie, name="oidc-tie"),
    path("users", users, name="users"),
    path("new-user", user_new, name="user-new"),
    path("users/import", users_import, name="users-import"),
    path("users/import/progress/<str:ticket>", users_import_progress, name="users-import-progress"),
    path("users/<person:username>", user_page, name="user"),
    path("users/<person:username>/password", user_password, name="user-password"),
    path("users/<person:username>/remove", user_end, name="user-remove"),
    path("names/<str:kind>", names, name="names"),
    path("groups", groups, name="groups"),
    path("new-group", group_new, name="group-new"),
    path("groups/<person:group>", group_page, name="group"),
    path("groups/<person:group>/members", group_member_add, name="group-member-add"),
    path("groups/<person:group>/members/<person:username>/remove", group_member_remove, name="group-member-remove"),
    path("groups/<person:group>/remove", group_end, name="group-remove"),
]
