eval(load_skill("totals"));
