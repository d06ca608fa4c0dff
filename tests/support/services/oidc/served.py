"""Django OAuth Toolkit as an OpenID provider, in a process of its own.

Run as `python -m tests.support.services.oidc.served PORT FOLDER`. It reads FOLDER/given.json ({"clients": {id:
{"secret": text, "redirect": [url]}}, "users": {name: claims}}) and serves on loopback. The password is PASSWORD.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

PASSWORD = "provider-s-own-password"
VIEWS = "tests.support.services.oidc.views"


def rsa_key() -> str:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    made = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    plain = serialization.NoEncryption()
    return made.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain).decode()


def configure(port: int, folder: Path) -> None:
    import django
    from django.conf import settings

    apps = ["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions", "oauth2_provider"]
    settings.configure(
        SECRET_KEY="of this run alone",
        ALLOWED_HOSTS=["127.0.0.1"],
        ROOT_URLCONF=VIEWS,
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": str(folder / "provider.sqlite3")}},
        INSTALLED_APPS=apps,
        MIGRATION_MODULES={app.rpartition(".")[2]: None for app in apps},
        MIDDLEWARE=[
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
        ],
        TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True}],
        PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
        USE_TZ=True,
        LOGIN_URL="/sign-in",
        SESSION_COOKIE_NAME="provider",  # cookies of one host are those of all its ports
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        OAUTH2_PROVIDER={
            "OIDC_ENABLED": True,
            "OIDC_RSA_PRIVATE_KEY": rsa_key(),
            "OIDC_ISS_ENDPOINT": f"http://127.0.0.1:{port}/o",
            "PKCE_REQUIRED": True,
            "SCOPES": {"openid": "who you are", "profile": "your name", "email": "your address"},
            "OAUTH2_VALIDATOR_CLASS": f"{VIEWS}.Teller",
        },
    )
    django.setup()


def fill(given: dict[str, Any]) -> None:
    from django.contrib.auth.models import User
    from django.core.management import call_command
    from oauth2_provider.models import Application

    from tests.support.services.oidc.views import told

    call_command("migrate", run_syncdb=True, verbosity=0)
    for name in given["users"]:
        User.objects.create_user(name, password=PASSWORD)
    for client_id, about in given["clients"].items():
        Application.objects.create(
            client_id=client_id,
            client_secret=about["secret"],
            redirect_uris=" ".join(about["redirect"]),
            client_type=Application.CLIENT_CONFIDENTIAL,
            authorization_grant_type=Application.GRANT_AUTHORIZATION_CODE,
            algorithm=Application.RS256_ALGORITHM,
            skip_authorization=True,
        )
    told.users = given["users"]


def main() -> None:
    port, folder = int(sys.argv[1]), Path(sys.argv[2])
    configure(port, folder)
    fill(json.loads((folder / "given.json").read_text()))
    import uvicorn
    from django.core.asgi import get_asgi_application

    uvicorn.run(get_asgi_application(), port=port, log_level="warning", access_log=False)


if __name__ == "__main__":
    main()
