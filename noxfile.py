"""The project's tasks. `./run NAME` makes what a task needs and runs it, and so does `nox -s NAME`."""

import hashlib
from pathlib import Path

import nox

nox.needs_version = ">=2025.5.1"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.reuse_venv = "yes"
nox.options.sessions = ["tests", "lint", "types", "imports"]

PROJECT = nox.project.load_toml("pyproject.toml")
CONSTRAINTS = "constraints.txt"
PACKAGE = "."
PACKAGE_FOR_TESTS = ".[netcdf,plot,polars,progress]"


def group(name: str) -> list[str]:
    return nox.project.dependency_groups(PROJECT, name)


def provide(session: nox.Session, *requirements: str, package: str | None = None) -> None:
    """Install the tested versions, unless the environment already holds what is asked for."""
    arguments = ["--constraint", CONSTRAINTS, *requirements, *(["--editable", package] if package else [])]
    files = [Path(name).read_text("utf-8") for name in ("pyproject.toml", CONSTRAINTS)]
    wanted = hashlib.sha256(repr([arguments, files]).encode()).hexdigest()
    stamp = Path(session.virtualenv.location, "provided")  # gone when the environment is made anew
    if stamp.exists() and stamp.read_text("utf-8") == wanted:
        return
    stamp.unlink(missing_ok=True)
    session.install(*arguments)
    stamp.write_text(wanted, "utf-8")


@nox.session
def demo(session: nox.Session) -> None:
    """Make a small store, ask it a first question, show the tables, the plan and the answer."""
    provide(session, package=PACKAGE)
    session.run("python", "-m", "xzsql.demo", *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests; arguments go to pytest."""
    provide(session, *group("test"), package=PACKAGE_FOR_TESTS)
    session.run("pytest", *(session.posargs or ["-n", "logical"]))


# made anew each time: a version that is already there and new enough would be kept
@nox.session(name="min-deps", reuse_venv=False)
def min_deps(session: nox.Session) -> None:
    """Run the tests with the oldest versions that the package says it works with."""
    if session.venv_backend != "uv":
        session.error("this session needs uv: only uv resolves the lowest versions")
    session.install("--resolution", "lowest-direct", *group("test"), "--editable", PACKAGE_FOR_TESTS)
    session.run("uv", "pip", "list")
    session.run("pytest", *(session.posargs or ["-n", "logical"]))


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and formatting with ruff."""
    provide(session, *group("lint"))
    session.run("ruff", "check", *session.posargs)
    session.run("ruff", "format", "--check")


@nox.session
def fix(session: nox.Session) -> None:
    """Mend what ruff can mend, and format."""
    provide(session, *group("lint"))
    session.run("ruff", "check", "--fix-only", *session.posargs)
    session.run("ruff", "format")


@nox.session
def types(session: nox.Session) -> None:
    """Check the types of the package with mypy."""
    provide(session, *group("types"), package=PACKAGE_FOR_TESTS)
    session.run("mypy", *session.posargs)


@nox.session
def imports(session: nox.Session) -> None:
    """Check who may import whom in the package."""
    provide(session, *group("lint"))
    session.run("lint-imports", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """Run every snippet and build the documentation into site/; `./run docs serve` shows it while it is written."""
    provide(session, *group("docs"), *group("test"), package=PACKAGE_FOR_TESTS)
    if not session.posargs:
        session.run("pytest", "tests/docs")
    session.run("mkdocs", *(session.posargs or ["build"]), "--strict", env={"NO_MKDOCS_2_WARNING": "1"})


@nox.session
def bench(session: nox.Session) -> None:
    """Time xzsql beside its peers; arguments go to tests/bench/compare.py."""
    provide(session, *group("bench"), package=PACKAGE)
    session.run("python", "tests/bench/compare.py", "--data", ".bench", *session.posargs)


@nox.session
def soak(session: nox.Session) -> None:
    """Run the long stress tests: threads, forks, abandoned streams."""
    provide(session, *group("test"), package=PACKAGE_FOR_TESTS)
    session.run("pytest", "-m", "soak", "--timeout", "0", *session.posargs)


@nox.session
def realdata(session: nox.Session) -> None:
    """Run the tests that read files people made."""
    provide(session, *group("test"), package=PACKAGE_FOR_TESTS)
    session.run("pytest", "-m", "realdata", *session.posargs)


@nox.session
def pin(session: nox.Session) -> None:
    """Write constraints.txt anew; `./run pin --upgrade` takes the newest versions."""
    if session.venv_backend != "uv":
        session.error("this session needs uv")
    compile_ = ["uv", "pip", "compile", "pyproject.toml", "--all-extras", "--group", "dev", "--python-version", "3.12"]
    form = ["--no-annotate", "--custom-compile-command", "./run pin", "--output-file", CONSTRAINTS]
    session.run(*compile_, *form, *session.posargs, silent=True)
