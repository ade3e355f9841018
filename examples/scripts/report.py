"""Put together what the other jobs found."""

from exchange import leave, result_of


def main() -> None:
    trend, season, outliers = result_of("trend"), result_of("season"), result_of("outliers")
    offset = result_of("calibration")["offset"]
    tomorrow = [hour["expected"] - offset for hour in result_of("forecast")["hours"]]
    lines = [
        f"Warming: {trend['slope'] * 24:+.3f} degrees a day ({trend['low'] * 24:+.3f} to {trend['high'] * 24:+.3f}).",
        f"Cycle: every {season['period']} hours, {season['amplitude']:.1f} degrees up and down.",
        f"Faults of the sensor: at hours {', '.join(map(str, outliers['hours']))}.",
        f"Tomorrow, corrected by {-offset:+.2f}: {min(tomorrow):.1f} to {max(tomorrow):.1f} degrees.",
    ]
    print("\n".join(lines))
    leave({"lines": lines, "slope": trend["slope"], "period": season["period"], "faults": outliers["hours"]})


if __name__ == "__main__":
    main()
