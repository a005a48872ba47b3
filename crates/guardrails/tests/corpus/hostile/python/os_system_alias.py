# expect: call
import os as operating_system

run = operating_system.system
run("id")
