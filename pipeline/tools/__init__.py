"""Tools that no stage needs: speed, and other processors. No result depends on them."""
