"""Who a rank is: its job, rank and place, from arguments, the launcher and the scheduler."""

from __future__ import annotations

import getpass
import hashlib
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

# In this order, the first that is set: what the user chose, then the schedulers. torchelastic's
# own default for its run id is the word "none".
_JOB_ID_VARIABLES: Final = (
    "ACTUARY_JOB_ID",
    "SLURM_JOB_ID",
    "TORCHELASTIC_RUN_ID",
    "KUBERNETES_JOB_NAME",
    "JOB_NAME",
)
_RANK_VARIABLES: Final = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")
_LOCAL_RANK_VARIABLES: Final = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK")
_WORLD_SIZE_VARIABLES: Final = ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE")
# Slurm's account is whom the cluster's operator charges, which is what a team is here.
_TEAM_VARIABLES: Final = ("ACTUARY_TEAM", "SLURM_JOB_ACCOUNT")
_PROJECT_VARIABLES: Final = ("ACTUARY_PROJECT",)
_NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@dataclass(frozen=True, slots=True)
class JobId:
    """The id of a job; ``chosen`` is False when it had to be made up."""

    value: str
    chosen: bool


def job_id(argument: str | None, environment: Mapping[str, str] = os.environ) -> JobId:
    """The job's id, stable over restarts.

    Argument, ``ACTUARY_JOB_ID``, Slurm, torchelastic's run id, Kubernetes' job name. Without any of
    them the id is made of the script's name and a digest of user, folder and script, which is the
    same for all ranks and after a restart.
    """
    candidates = (argument, *(environment.get(name) for name in _JOB_ID_VARIABLES))
    for candidate in candidates:
        text = str(candidate).strip() if candidate is not None else ""
        if text and text != "none":
            return JobId(text, chosen=True)
    script = sys.argv[0] if sys.argv else ""
    facts = "\0".join((_user(), _folder(), script)).encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(facts).hexdigest()[:8]
    return JobId(f"local-{Path(script).stem or 'python'}-{digest}", chosen=False)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user id without an entry in passwd
        return str(os.getuid())


def _folder() -> str:
    try:
        return str(Path.cwd())
    except OSError:  # the folder was removed under the process
        return ""


def rank(environment: Mapping[str, str] = os.environ) -> str:
    """The global rank by the launcher's variables; "0" for a single process."""
    return _first_number(_RANK_VARIABLES, environment) or "0"


def local_rank(environment: Mapping[str, str] = os.environ) -> str:
    """The rank within the node by the launcher's variables; "" when none says it."""
    return _first_number(_LOCAL_RANK_VARIABLES, environment)


def world_size(environment: Mapping[str, str] = os.environ) -> str:
    """The number of ranks by the launcher's variables; "1" for a single process."""
    return _first_number(_WORLD_SIZE_VARIABLES, environment) or "1"


def _first_number(names: tuple[str, ...], environment: Mapping[str, str]) -> str:
    for name in names:
        value = environment.get(name, "").strip()
        if value.isdecimal():
            return value
    return ""


def team(environment: Mapping[str, str] = os.environ) -> str:
    """Who is charged: ``ACTUARY_TEAM``, else Slurm's account; "" when none says it."""
    return _first_text(_TEAM_VARIABLES, environment)


def project(environment: Mapping[str, str] = os.environ) -> str:
    """What it is for: ``ACTUARY_PROJECT``; "" when that is not set."""
    return _first_text(_PROJECT_VARIABLES, environment)


def _first_text(names: tuple[str, ...], environment: Mapping[str, str]) -> str:
    texts = (environment.get(name, "").strip() for name in names)
    return next((text for text in texts if text), "")


def pod(environment: Mapping[str, str] = os.environ) -> str:
    """The Kubernetes pod, "" outside Kubernetes."""
    if "KUBERNETES_SERVICE_HOST" not in environment:
        return environment.get("POD_NAME", "")
    return environment.get("POD_NAME") or environment.get("HOSTNAME", "")


def namespace(environment: Mapping[str, str] = os.environ) -> str:
    """The Kubernetes namespace, "" outside Kubernetes."""
    configured = environment.get("POD_NAMESPACE", "")
    if configured or "KUBERNETES_SERVICE_HOST" not in environment:
        return configured
    try:
        return _NAMESPACE_FILE.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
