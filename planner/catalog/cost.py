"""Costs of training: rent, machines of one's own, electricity, CO2, and dollars for each TFLOP/s."""

from dataclasses import dataclass

HOUR_S = 3600.0
HOURS_PER_YEAR = 8760.0
JOULES_PER_KWH = 3.6e6


def rent_usd(time_s: float, usd_per_hour: float, machines: int = 1) -> float:
    """Hours times price. 2.958 h at $24.48: $72.41."""
    return time_s / HOUR_S * usd_per_hour * machines


def annuity_usd(price_usd: float, years: float, interest: float) -> float:
    """Yearly payment that pays a price off: P r / (1 - (1 + r)^-n). $149,000, 3 years, 5 %: $54,714."""
    return price_usd / years if interest == 0 else price_usd * interest / (1 - (1 + interest) ** -years)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """Costs of owning a machine."""

    years: float = 3.0
    """Over which it is written off."""
    interest: float = 0.05
    """A year, as a share."""
    used: float = 0.6
    """Share of its hours that it works: the rest is paid as well."""
    usd_per_kwh: float = 0.12
    overhead: float = 1.3
    """Power of the room over power of the machine (PUE)."""

    def usd_per_hour(self, price_usd: float, power_w: float) -> float:
        """Cost of an hour of use. $149,000 and 3.5 kW: $10.41 of annuity and $0.55 of electricity."""
        capital = annuity_usd(price_usd, self.years, self.interest) / (HOURS_PER_YEAR * self.used)
        return capital + power_w / 1000 * self.overhead * self.usd_per_kwh


def co2_kg(energy_j: float, grid_g_per_kwh: float) -> float:
    """Energy times what the grid emits. 1 MWh at 400 g/kWh: 400 kg."""
    return energy_j / JOULES_PER_KWH * grid_g_per_kwh / 1000


def usd_per_tflops(usd: float, tflops: float) -> float:
    """Dollars for each TFLOP/s that they buy. $149,000 for 120: $1,242."""
    return usd / tflops
