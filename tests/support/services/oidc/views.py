"""The provider's addresses, and what it tells of people.

`POST /control` changes that: {"users": {name: claims}}, and {"lie": {claim: value}}, which each ID token has in place
of the true one (null: it is missing), as a provider tells whose settings, clock or keys are wrong. `key` is no claim:
the token is signed by a key that the provider does not publish.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth import authenticate, login
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.middleware.csrf import get_token
from django.urls import include, path
from jwcrypto import jwk, jwt
from oauth2_provider.oauth2_validators import OAuth2Validator

from tests.support.services.oidc.served import rsa_key


@dataclass
class Told:
    users: dict[str, dict[str, Any]] = field(default_factory=dict)
    lie: dict[str, Any] = field(default_factory=dict)


told = Told()


class Teller(OAuth2Validator):  # type: ignore[misc]  # it has no types
    """DOT's own validator with claims of our people, and with lies where the test asks for them."""

    oidc_claim_scope = None

    def get_additional_claims(self, request: Any) -> dict[str, Any]:
        return {"sub": f"id-of-{request.user.username}", **told.users[request.user.username]}

    def finalize_id_token(self, id_token: Any, token: Any, token_handler: Any, request: Any) -> str:
        true = super().finalize_id_token(id_token, token, token_handler, request)
        if not told.lie:
            return str(true)
        read = jwt.JWT(jwt=true, key=request.client.jwk_key)
        header, claims = json.loads(read.header), {**json.loads(read.claims), **told.lie}
        key = jwk.JWK.from_pem(rsa_key().encode()) if claims.pop("key", None) else request.client.jwk_key
        kept = {name: value for name, value in claims.items() if value is not None}
        made = jwt.JWT(header=header, claims=kept)
        made.make_signed_token(key)
        return str(made.serialize())


def sign_in(request: HttpRequest) -> HttpResponse:
    if request.method == "POST":
        user = authenticate(request, username=request.POST["username"], password=request.POST["password"])
        if user is not None:
            login(request, user)
            return HttpResponseRedirect(request.GET["next"])
    token = get_token(request)
    return HttpResponse(
        '<!doctype html><html lang="en"><link rel="icon" href="data:,"><title>Provider</title><main>'
        '<h1>The provider</h1><form method="post">'
        f'<input type="hidden" name="csrfmiddlewaretoken" value="{token}"><label>Name <input name="username"></label>'
        f'<label>Secret word <input name="password" type="password"></label><button>Sign in</button></form></main>'
    )


def control(request: HttpRequest) -> HttpResponse:
    asked = json.loads(request.body)
    told.users |= asked.get("users", {})
    told.lie = asked.get("lie", told.lie)
    return JsonResponse({})


urlpatterns = [
    path("o/", include("oauth2_provider.urls", namespace="oauth2_provider")),
    path("sign-in", sign_in),
    path("control", control),
]
