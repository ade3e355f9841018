"""What people should know: rules looked at every half minute, alerts that fire, silences."""
