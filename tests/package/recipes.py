# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The recipes for rpm, Spack and containers against the tree: they name what is installed, what building needs, options
and tools that there are, and rights that are not root's.

Usage: recipes.py SOURCE-FOLDER GAUDI-PERF
"""

import pathlib
import re
import subprocess
import sys
import types

ROOT = pathlib.Path(sys.argv[1])
PERF = sys.argv[2]
PACKAGE = ROOT / "util/package"
CMAKE = (ROOT / "CMakeLists.txt").read_text()
MANIFESTS = [line for name in ("manifest", "manifest.hlsim")
             for line in (ROOT / "tests/package" / name).read_text().split()]


def expect(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


def minimum(pattern):
    return re.search(pattern, CMAKE)[1]


MINIMA = {"cmake": minimum(r"cmake_minimum_required\(VERSION ([\d.]+)"),
          "boost": minimum(r"find_package\(Boost ([\d.]+)"),
          "libfabric": minimum(r"libfabric>=([\d.]+)")}


def check_spec():
    """Each installed file has a package, and the package's lines are of files that there are."""
    spec = (PACKAGE / "rpm/gaudi-fi.spec.in").read_text()
    lines = re.findall(r"^%\{(_\w+|with_hlsim_folder)\}(\S*)", spec[spec.index("%files"):], re.MULTILINE)
    folders = {"_libdir": "LIB", "_bindir": "bin", "_includedir": "include", "_datadir": "share",
               "_mandir": "share/man", "with_hlsim_folder": "LIB/hlsim"}
    patterns = [re.escape(folders[name] + rest).replace(r"\*", "[^/]*") for name, rest in lines]
    for path in MANIFESTS:
        if not path.startswith("share/doc/"):  # %license and %doc
            expect(any(re.fullmatch(p + "(/.*)?", path) for p in patterns), f"rpm: {path} is in no package")
    for pattern in patterns:
        expect(any(re.fullmatch(pattern + "(/.*)?", path) for path in MANIFESTS), f"rpm: {pattern} is not installed")
    for name, wanted in (("cmake", r"cmake >= "), ("boost", r"boost-devel >= "), ("libfabric", r"libfabric\) >= ")):
        expect(re.search(f"{wanted}{re.escape(MINIMA[name])}$", spec, re.MULTILINE), f"rpm: wants another {name}")


def recipe_of_spack():
    """The recipe's class, made with directives that only remember what they were told."""
    told = []

    def directive(name):
        return lambda *args, **named: told.append((name, args, named))

    known = types.ModuleType("spack.package")
    for name in ("license", "version", "variant", "depends_on", "generator", "conflicts"):
        setattr(known, name, directive(name))
    known.run_after = lambda *args, **named: lambda function: function
    known.which = None
    known.CMakePackage = type("CMakePackage", (), {
        "define": lambda self, name, value: name, "define_from_variant": lambda self, name, variant: (name, variant)})
    sys.modules["spack"], sys.modules["spack.package"] = types.ModuleType("spack"), known
    scope = {}
    path = PACKAGE / "spack/packages/gaudi_fi/package.py"
    exec(compile(path.read_text(), str(path), "exec"), scope)  # pylint: disable=exec-used
    return scope["GaudiFi"](), told


def check_spack():
    recipe, told = recipe_of_spack()
    needs = [args[0] for name, args, _ in told if name == "depends_on"]
    variants = [args[0] for name, args, _ in told if name == "variant"]
    for name, version in MINIMA.items():
        expect(any(need.startswith(f"{name}@{version}:") for need in needs), f"Spack: wants another {name}: {needs}")
    for argument in recipe.cmake_args():
        name, variant = argument if isinstance(argument, tuple) else (argument, None)
        expect(name.startswith("CMAKE_") or re.search(rf"option\({name}\b", CMAKE), f"Spack: no option {name}")
        expect(variant is None or variant in variants, f"Spack: no variant {variant}")


def check_dockerfile():
    text = re.sub(r"\\\n", " ", (PACKAGE / "container/Dockerfile").read_text())
    control = (PACKAGE / "debian/control").read_text()
    needs = set(re.findall(r"^ ([\w+.-]+)", control[:control.index("\nPackage:")], re.MULTILINE)) - {"debhelper-compat"}
    installed = re.search(r"--no-install-recommends\s+(.*?)&&", text)[1].split()
    expect(set(installed) == needs | {"g++"}, f"Dockerfile: {set(installed) ^ (needs | {'g++'})}")
    for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE):
        for name in line.split()[:-1]:
            expect(list(ROOT.glob(name)), f"Dockerfile: there is no {name}")
    users = re.findall(r"^USER (\S+)", text, re.MULTILINE)
    expect(users and not {"0", "root"} & set(users), f"Dockerfile: users {users}")
    expect(text.rindex("AS runtime") > text.rindex("AS check"), "Dockerfile: the last stage is not the runtime")
    expect("COPY --from=check" in text[text.rindex("AS runtime"):], "Dockerfile: the check may be left out")


def check_pods():
    try:
        import yaml
    except ImportError:
        print("python3-yaml is not installed: the pods are not looked at")
        return
    options = set(re.findall(r"--[a-z-]+", subprocess.run([PERF, "--help"], capture_output=True, text=True, check=True).stdout))
    documents = list(yaml.safe_load_all((PACKAGE / "container/pods.yaml").read_text()))
    services = {d["metadata"]["name"] for d in documents if d["kind"] == "Service"}
    pods = [d for d in documents if d["kind"] == "Pod"]
    expect(len(pods) == 2 and len(services) == 1, "pods: two pods and a service")
    for pod in pods:
        volumes = {volume["name"] for volume in pod["spec"]["volumes"]}
        for container in pod["spec"]["containers"]:
            tool, *arguments = container["command"]
            expect(f"bin/{tool}" in MANIFESTS, f"pods: no tool {tool}")
            expect({a for a in arguments if a.startswith("--")} <= options, f"pods: options {arguments}")
            rights = container["securityContext"]
            expect(rights["runAsNonRoot"] and not rights["allowPrivilegeEscalation"], "pods: root's rights")
            expect({mount["name"] for mount in container["volumeMounts"]} == volumes, "pods: volumes")
    expect(pods[1]["spec"]["containers"][0]["command"][-1] in services, "pods: the client asks for another server")


check_spec()
check_spack()
check_dockerfile()
check_pods()
print("recipes: as the tree is")
