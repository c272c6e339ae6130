"""From PTX text to syntax trees."""
