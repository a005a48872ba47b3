# expect: call
import subprocess

subprocess.Popen("nohup ./miner &", shell=True)
