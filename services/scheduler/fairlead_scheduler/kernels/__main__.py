"""`python -m fairlead_scheduler.kernels` compiles ahead, for images and set-up steps."""

from fairlead_scheduler.kernels import compilation

if __name__ == "__main__":
    compilation.main()
