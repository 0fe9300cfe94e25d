#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# HPC Challenge (Debian's package hpcc), which compares its results with what they have to be: as one rank of a job of 4, in the
# folder where all ranks begin. Rank 0 looks into the results. Started by run.sh.
set -euo pipefail

rank=${OMPI_COMM_WORLD_RANK:?is set by mpirun}
folder=${HPCC_FOLDER:?is where the ranks meet}
mkdir -p "$folder"
cd "$folder"

# Matrices of 1000 x 1000 on 2 x 2 ranks; the file is that of HPL's, with lines for PTRANS behind it.
write_input() {
  cat <<'END'
HPLinpack benchmark input file
-
HPL.out      output file name (if any)
8            device out (6=stdout,7=stderr,file)
1            # of problems sizes (N)
1000         Ns
1            # of NBs
80           NBs
0            PMAP process mapping (0=Row-,1=Column-major)
1            # of process grids (P x Q)
2            Ps
2            Qs
16.0         threshold
1            # of panel fact
2            PFACTs (0=left, 1=Crout, 2=Right)
1            # of recursive stopping criterium
4            NBMINs (>= 1)
1            # of panels in recursion
2            NDIVs
1            # of recursive panel fact.
1            RFACTs (0=left, 1=Crout, 2=Right)
1            # of broadcast
1            BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)
1            # of lookahead depth
1            DEPTHs (>=0)
2            SWAP (0=bin-exch,1=long,2=mix)
64           swapping threshold
0            L1 in (0=transposed,1=no-transposed) form
0            U  in (0=transposed,1=no-transposed) form
1            Equilibration (0=no,1=yes)
8            memory alignment in double (> 0)
-
0            Number of additional problem sizes for PTRANS
1200         values of N
0            number of additional blocking sizes for PTRANS
40           values of NB
END
}

# Rank 0 reads it, and the others hear of it by messages.
if [[ $rank == 0 ]]; then
  rm -f hpccoutf.txt
  write_input >hpccinf.txt
fi
"${HPCC:-hpcc}"
[[ $rank == 0 ]] || exit 0

require() { # PATTERN HOW-OFTEN
  local found
  found=$(grep -cE "$1" hpccoutf.txt) || true
  [[ $found == "$2" ]] || { echo "\"$1\" is there $found times instead of $2:"; cat hpccoutf.txt; exit 1; }
}
require '^Success=1$' 1
require '^PTRANS_residual=0$' 1
require 'Found 0 errors in [0-9]+ locations \(passed\)\.' 4
require ' 0 tests completed and failed residual checks' 2
echo "HPC Challenge: all verified"
