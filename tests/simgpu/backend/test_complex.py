"""Complex numbers: simulated GPUs and `host_ops` compute, and differentiate, as the CPU does."""

import contextlib

import pytest
import torch

import simgpu as sim

GENERATOR = torch.Generator().manual_seed(3)
MATRIX, OTHER = torch.randn(2, 2, 4, 4, dtype=torch.complex128, generator=GENERATOR)
TALL = torch.randn(5, 3, dtype=torch.complex128, generator=GENERATOR)
HERMITIAN = MATRIX @ MATRIX.mH + torch.eye(4)
linalg = torch.linalg

PROGRAMS = {
    "pinv": (linalg.pinv, MATRIX),
    "pinv of a tall matrix": (linalg.pinv, TALL),
    "pinv of a hermitian matrix": (lambda a: linalg.pinv(a + a.mH, hermitian=True), MATRIX),
    "lstsq": (lambda a: linalg.lstsq(a, a.conj() * 2 + 1).solution, TALL),
    "lu_solve": (lambda a: linalg.lu_solve(*linalg.lu_factor(a), a.mH.sin()), MATRIX),
    "lu_solve, adjoint": (
        lambda a: linalg.lu_solve(*linalg.lu_factor(a), a.sin(), adjoint=True, left=False),
        MATRIX,
    ),
    "solve": (lambda a: linalg.solve(a.mH, a), MATRIX),
    "inv": (linalg.inv, MATRIX),
    "svdvals": (linalg.svdvals, MATRIX),
    "svd": (lambda a: (lambda u, s, v: u @ (s[..., None] * v))(*linalg.svd(a)), MATRIX),
    "eigvals": (lambda a: linalg.eigvals(a).abs(), MATRIX),
    "eigh": (lambda a: linalg.eigh(a + a.mH).eigenvalues, MATRIX),
    "eigenvalues of a real matrix": (lambda a: linalg.eigvals(a.real).abs(), MATRIX),
    "qr": (lambda a: linalg.qr(a).R.abs(), TALL),
    "cholesky": (lambda a: linalg.cholesky(a @ a.mH), HERMITIAN),
    "cholesky_solve": (lambda a: torch.cholesky_solve(a, linalg.cholesky(HERMITIAN.to(a))), MATRIX),
    "triangular": (lambda a: linalg.solve_triangular(a.mH.triu(), a, upper=True), MATRIX),
    "det": (linalg.det, MATRIX),
    "slogdet": (lambda a: linalg.slogdet(a).logabsdet, MATRIX),
    "matrix_exp": (linalg.matrix_exp, MATRIX),
    "matrix_power": (lambda a: linalg.matrix_power(a, -2), MATRIX),
    "nuclear norm": (lambda a: linalg.norm(a, "nuc", dim=(-2, -1)), MATRIX),
    "cond": (linalg.cond, MATRIX),
    "householder": (lambda a: linalg.householder_product(a, a.sin()[0, :3]), TALL),
    "products with conjugates": (lambda a: (a.conj() @ a.mH).imag + a.conj().imag, MATRIX),
    "vdot": (lambda a: torch.vdot(a.flatten(), (a * 2j).flatten()), MATRIX),
    "view_as_real": (lambda a: torch.view_as_real(a.mH.resolve_conj()), MATRIX),
    "fft": (lambda a: torch.fft.hfft(torch.fft.fft(a.conj())), MATRIX),
    "in-place": (lambda a: a.clone().mul_(a.conj()).sub_(a.mH), MATRIX),
}


def value_and_gradient(program, x):
    """Return the result, and the gradient of a real number that depends on all of it."""
    x = x.detach().clone().requires_grad_()
    y = program(x)
    weights = torch.cos(torch.arange(y.numel(), device=y.device)).reshape(y.shape)
    ((y * weights).abs() ** 2).sum().backward()
    return y.detach(), x.grad


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients_are_those_of_the_cpu(name):
    (device,) = sim.configure(1)
    program, x = PROGRAMS[name]
    expected = value_and_gradient(program, x)
    found = {"sim": value_and_gradient(program, x.to(device))}
    with sim.host_ops():
        found["host_ops"] = value_and_gradient(program, x)
    with sim.check_races():
        found["check_races"] = value_and_gradient(program, x)
        found["check_races, sim"] = value_and_gradient(program, x.to(device))
    for where, results in found.items():
        for result, right in zip(results, expected, strict=True):
            torch.testing.assert_close(
                result.cpu().resolve_conj(), right, rtol=1e-9, atol=1e-9, msg=where
            )


@pytest.mark.parametrize("name", ["pinv", "lstsq", "lu_solve", "svd", "triangular"])
@pytest.mark.parametrize("where", ["sim", "host_ops"])
def test_gradients_are_those_of_finite_differences(name, where):
    (device,) = sim.configure(1)
    program, x = PROGRAMS[name]
    x = x.to(device) if where == "sim" else x
    direction = torch.polar(torch.ones(x.shape), torch.arange(x.numel()).view(x.shape) * 0.7)
    step = 1e-6 * direction.to(x)
    with sim.host_ops() if where == "host_ops" else contextlib.nullcontext():
        gradient = value_and_gradient(lambda a: program(a).abs().sum(), x)[1]
        ends = [(program(x + sign * step).abs().sum() ** 2).item() for sign in (1, -1)]
        slope = torch.vdot(gradient.flatten(), step.flatten()).real.item() / 1e-6
    assert slope == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5)


@pytest.mark.parametrize("where", ["sim", "host_ops", "check_races"])
def test_a_pseudoinverse_is_one(where):
    (device,) = sim.configure(1)
    a = MATRIX.to(device) if where == "sim" else MATRIX
    block = {"host_ops": sim.host_ops, "check_races": sim.check_races}.get(where)
    with block() if block else contextlib.nullcontext():
        torch.ones(1, device=device)  # check_races wants to see some work
        p = linalg.pinv(a)
    a, p = a.cpu(), p.cpu()
    torch.testing.assert_close(a @ p @ a, a)
    torch.testing.assert_close(p @ a, (p @ a).mH)


def test_no_result_keeps_a_hidden_conjugate():
    (device,) = sim.configure(1)
    lu, pivots = linalg.lu_factor(MATRIX.to(device))
    x = linalg.lu_solve(lu, pivots, OTHER.to(device), adjoint=True, left=False)
    torch.testing.assert_close(x.cpu(), OTHER @ linalg.inv(MATRIX.mH))
    torch.testing.assert_close(torch.view_as_real(x).cpu(), torch.view_as_real(x.cpu()))
