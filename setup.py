"""Builds the extensions; everything else about the package is in pyproject.toml.

Every ``uniflexflow/_core/*.pyx`` is an extension. Every ``uniflexflow/_core/tile/*.c`` is
compiled once per instruction set of the host's architecture, and all those objects are
linked into the extension ``dispatch``, which chooses among them at import.

Environment: ``UNIFLEXFLOW_BUILD_DEBUG=1`` builds with bounds checks and without
optimisation; ``UNIFLEXFLOW_BUILD_JOBS`` sets how many compilers run at once;
``UNIFLEXFLOW_BUILD_ONLY=gemm,reduce`` builds those extensions (and dispatch) alone.
"""

import os
import platform
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
CORE = Path("uniflexflow/_core")
DEBUG = os.environ.get("UNIFLEXFLOW_BUILD_DEBUG", "0") not in ("", "0")
ONLY = {n for n in os.environ.get("UNIFLEXFLOW_BUILD_ONLY", "").split(",") if n}
JOBS = int(os.environ.get("UNIFLEXFLOW_BUILD_JOBS", "0")) or len(os.sched_getaffinity(0))

# Instruction sets per architecture, the portable one first; names as in isa.h.
TARGETS = {
    "x86_64": {
        "v2": ["-march=x86-64-v2"],
        "v3": ["-march=x86-64-v3", "-mprefer-vector-width=256"],
        "v4": ["-march=x86-64-v4", "-mprefer-vector-width=512"],
        "v4bf16": ["-march=x86-64-v4", "-mavx512bf16", "-mprefer-vector-width=512"],
    },
    "aarch64": {"neon": ["-march=armv8-a"]},
}.get(platform.machine(), {"generic": []})

# Only the sources that say so differ on this target; the others keep the set below it.
MARKERS = {"v4bf16": "__AVX512BF16__"}

# No -ffast-math: NaN and infinity go through kernels as they go through NumPy.
OPTIMISE = ["-O1", "-g"] if DEBUG else ["-O3"]
FLAGS = [*OPTIMISE, "-std=gnu11", "-fno-math-errno", "-Wall"]
TILE_FLAGS = [
    *FLAGS,
    "-ffp-contract=fast",
    "-fno-trapping-math",
    "-fno-semantic-interposition",
    "-fvisibility=hidden",
    "-Wno-psabi",
]
DIRECTIVES = {
    "language_level": 3,
    "boundscheck": DEBUG,
    "initializedcheck": DEBUG,
    "cdivision": True,
    "embedsignature": True,
}


class BuildKernels(build_ext):
    """build_ext that compiles the tile kernels first, and again only what has changed."""

    def finalize_options(self):
        super().finalize_options()
        self.parallel = self.parallel or JOBS

    def build_extensions(self):
        self._rebuild_on_new_flags()
        objects = self._tile_objects()
        for extension in self.extensions:
            if extension.name.endswith(".dispatch"):
                extension.extra_objects = objects
                extension.depends = [*extension.depends, *objects]
        super().build_extensions()

    def _rebuild_on_new_flags(self):
        stamp = Path(self.build_temp, "flags.txt")
        now = repr((FLAGS, TILE_FLAGS, TARGETS, DIRECTIVES, self.compiler.compiler_so))
        if not stamp.exists() or stamp.read_text() != now:
            self.force = True
            stamp.parent.mkdir(parents=True, exist_ok=True)
            stamp.write_text(now)

    def _tile_objects(self):
        families = Path(CORE, "tile", "families.h").read_text()
        headers = max(p.stat().st_mtime for p in CORE.glob("tile/*.h"))
        jobs, objects = [], []
        for source in sorted(CORE.glob("tile/*.c")):
            if ONLY and f"X({source.stem}," not in families:
                continue
            for target, flags in TARGETS.items():
                if target in MARKERS and MARKERS[target] not in source.read_text():
                    continue
                folder = Path(self.build_temp, "tile", target)
                obj = folder / source.with_suffix(".o")
                objects.append(str(obj))
                newest = max(source.stat().st_mtime, headers)
                if self.force or not obj.exists() or obj.stat().st_mtime < newest:
                    jobs.append((source, target, flags, folder))
        with ThreadPoolExecutor(JOBS) as pool:
            list(pool.map(lambda job: self._compile_tile(*job), jobs))
        return objects

    def _compile_tile(self, source, target, flags, folder):
        self.compiler.compile(
            [str(source)],
            output_dir=str(folder),
            macros=[("UFF_ISA", target)],
            include_dirs=[str(CORE)],
            extra_postargs=[*TILE_FLAGS, *flags],
        )


def extensions():
    """One extension per .pyx; its tiled operations may lean on any header of the core."""
    headers = [str(p) for p in sorted(CORE.rglob("*.h"))]
    result = []
    for source in sorted(CORE.glob("*.pyx")):
        if ONLY and source.stem not in ONLY | {"dispatch"}:
            continue
        result.append(
            Extension(
                ".".join(source.with_suffix("").parts),
                [str(source)],
                include_dirs=[str(CORE), numpy.get_include()],
                define_macros=[("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION")],
                extra_compile_args=FLAGS,
                depends=headers,
            )
        )
    return cythonize(
        result,
        build_dir="build/cython-debug" if DEBUG else "build/cython",
        compiler_directives=DIRECTIVES,
        nthreads=0,
    )


os.chdir(ROOT)
setup(ext_modules=extensions(), cmdclass={"build_ext": BuildKernels})
