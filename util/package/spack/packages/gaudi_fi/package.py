# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Spack's recipe. util/package/README.md says how to use it, and how far it was checked."""

from spack.package import *

try:
    from spack_repo.builtin.build_systems.cmake import CMakePackage
except ImportError:
    pass  # before Spack 1.0 spack.package has it


class GaudiFi(CMakePackage):
    """A libfabric provider for the memory of Intel Gaudi accelerators, with tools that show, measure and test it, and
    simulated Gaudis for development without the hardware."""

    homepage = "https://example.org/gaudi-fi"
    git = "https://example.org/gaudi-fi.git"

    license("GPL-2.0-only OR BSD-2-Clause")

    version("main", branch="main")

    variant("hlsim", default=False, description="Install the stand-ins for libhl-thunk, libSynapse and libscal")
    variant("usdt", default=False, description="Static probes for bpftrace, perf and gdb")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("boost@1.74:", type="build")
    depends_on("cli11", type="build")
    depends_on("nlohmann-json", type="build")
    depends_on("fmt")
    depends_on("libfabric@1.17: fabrics=verbs,tcp,rxm", type=("build", "link", "run"))
    depends_on("rdma-core")
    depends_on("systemtap", when="+usdt", type="build")

    generator("ninja")
    conflicts("%gcc@:10", msg="C++20 as GCC 11 has it is needed")
    conflicts("%clang@:13", msg="C++20 as clang 14 has it is needed")
    conflicts("platform=darwin")

    def cmake_args(self):
        return [
            self.define("GAUDI_TESTS", False),
            self.define("CMAKE_INSTALL_LIBDIR", "lib"),
            self.define_from_variant("GAUDI_USDT", "usdt"),
        ]

    @run_after("install", when="+hlsim")
    def install_stand_ins(self):
        which("cmake")("--install", self.build_directory, "--component", "hlsim")

    def setup_run_environment(self, env):
        # libfabric looks for providers below its own prefix, which is another one.
        env.prepend_path("FI_PROVIDER_PATH", self.prefix.lib.libfabric)
