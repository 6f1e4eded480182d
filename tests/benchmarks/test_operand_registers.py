"""Machine code that writes what a product still reads is told from such that waits first."""

import pytest
from bench.probes.operand_registers import written_early

LOOP = """
.L_x_1:
        /*0100*/                   HGMMA.64x64x16.F32.BF16 R24, R120, gdesc[UR8].tnspB, R24, gsb0 ;
        /*0110*/                   {between} ;
        /*0120*/                   WARPGROUP.DEPBAR.LE gsb0, {left} ;
        /*0130*/                   F2FP.BF16.F32.PACK_AB R121, R17, R16 ;
        /*0140*/               @P0 BRA `(.L_x_1) ;
        /*0150*/                   MOV R122, R4 ;
"""


@pytest.mark.parametrize(
    ("between", "left", "early"),
    [
        ("FADD R4, R121, R120", "0x0", []),
        ("FADD R120, R4, R5", "0x0", ["FADD R120, R4, R5"]),
        ("LDSM.16.M88.4 R117, [R3]", "0x0", ["LDSM.16.M88.4 R117, [R3]"]),
        ("LDSM.16.M88.4 R116, [R3]", "0x0", []),
        ("STS.128 [UR5], R120", "0x0", []),
        ("ISETP.GT.AND P0, PT, R121, RZ, PT", "0x0", []),
        ("SHFL.BFLY PT, R123, R4, 0x1, 0x1f", "0x0", ["SHFL.BFLY PT, R123, R4, 0x1, 0x1f"]),
        # A group may still be in flight.
        ("NOP", "0x1", ["F2FP.BF16.F32.PACK_AB R121, R17, R16", "MOV R122, R4"]),
    ],
)
def test_writes_before_the_wait(between, left, early):
    assert written_early(LOOP.format(between=between, left=left)) == early


def test_what_comes_round_a_loop_counts():
    turned = """
        /*0090*/                   MOV R120, R1 ;
.L_x_1:
        /*00f0*/                   FMUL R123, R4, R5 ;
        /*0100*/                   WARPGROUP.DEPBAR.LE gsb0, 0x0 ;
        /*0110*/                   HGMMA.64x64x16.F32.BF16 R24, R120, gdesc[UR8].tnspB, R24, gsb0 ;
        /*0140*/              @!P0 BRA `(.L_x_1) ;
"""
    assert written_early(turned) == ["FMUL R123, R4, R5"]


def test_a_group_that_has_been_waited_for_reads_no_more():
    two = """
        /*0100*/                   HGMMA.64x64x16.F32.BF16 R24, R120, gdesc[UR8].tnspB, R24, gsb0 ;
        /*0110*/                   HGMMA.64x64x16.F32.BF16 R56, R124, gdesc[UR8].tnspB, R56 ;
        /*0120*/                   HGMMA.64x64x16.F32.BF16 R56, R128, gdesc[UR8].tnspB, R56, gsb0 ;
        /*0130*/                   WARPGROUP.DEPBAR.LE gsb0, 0x1 ;
        /*0140*/                   MOV R120, R4 ;
        /*0150*/                   MOV R124, R4 ;
        /*0160*/                   WARPGROUP.DEPBAR.LE gsb0, 0x0 ;
        /*0170*/                   MOV R128, R4 ;
"""
    assert written_early(two) == ["MOV R124, R4"]
