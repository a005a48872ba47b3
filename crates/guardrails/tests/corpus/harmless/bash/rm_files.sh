rm -rf build dist ./*.egg-info
