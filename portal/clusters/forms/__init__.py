"""What people type on the pages of the cluster."""

from portal.clusters.forms.means import (
    ImageForm,
    JoiningForm,
    JoinTokenForm,
    NewStorageForm,
    PriceForm,
    ShareForm,
    StorageForm,
)
from portal.clusters.forms.people import (
    GroupForm,
    JoinForm,
    NewGroupForm,
    NewUserForm,
    TableForm,
    UserFilterForm,
    UserForm,
)
from portal.clusters.forms.people import PasswordForm as UserPasswordForm
from portal.clusters.forms.teams import (
    FirmRightForm,
    GiveUpForm,
    IntentForm,
    LoanForm,
    LoginForm,
    MemberForm,
    NewVcForm,
    PutBackForm,
    RulesForm,
    SecretForm,
    StrangerForm,
)

__all__ = [
    "ImageForm",
    "NewStorageForm",
    "PriceForm",
    "ShareForm",
    "StorageForm",
    "FirmRightForm",
    "GroupForm",
    "IntentForm",
    "JoinForm",
    "JoinTokenForm",
    "JoiningForm",
    "LoanForm",
    "LoginForm",
    "MemberForm",
    "NewGroupForm",
    "NewUserForm",
    "NewVcForm",
    "GiveUpForm",
    "PutBackForm",
    "RulesForm",
    "SecretForm",
    "StrangerForm",
    "TableForm",
    "UserFilterForm",
    "UserForm",
    "UserPasswordForm",
]
